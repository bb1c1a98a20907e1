"""Cases in the form of ../README.md: functions that are named module__behaviour, and run in their order."""
import sys
import traceback


def run(cases):
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            comment = case()
        except Exception:
            failed += 1
            print(f"not ok {number} - {case.__name__}")
            comment = traceback.format_exc()
        else:
            print(f"ok {number} - {case.__name__}")
        for line in (comment or "").splitlines():
            print(f"# {line}")
        sys.stdout.flush()
    print(f"1..{len(cases)}")
    sys.exit(1 if failed else 0)


def cases(names):
    """Those of a module."""
    return [function for name, function in names.items() if "__" in name and not name.startswith("_") and callable(function)]


class raises:
    """With this the block has to raise that, with the text in it; it is `caught` then."""

    def __init__(self, kind, text=""):
        self.kind, self.text = kind, text

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is not None, f"nothing was raised, {self.kind.__name__} was wanted"
        if not isinstance(error, self.kind):
            return False
        assert self.text in str(error), f"{self.text!r} is not in {str(error)!r}"
        self.caught = error
        return True


def same(seen, wanted):
    assert seen == wanted, f"saw {seen!r}, wanted {wanted!r}"
