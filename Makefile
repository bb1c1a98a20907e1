# The usual tasks by short names. Meson and ninja do the work; BUILD names the build folder.
BUILD ?= build
SOURCES = $(wildcard src/*/*.[ch] src/*/*/*.[ch] include/*.h include/*/*.h tests/*.[ch] tests/*/*.[ch] examples/*.[ch])

.PHONY: all bench test-memories test-page test-deb test-upgrade deb debug demo deps install uninstall model test test-large test-durable test-bft test-group test-group-killed test-group-moves test-rdma fuzz asan tsan coverage format clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

# The same with every rule of a replica checked in every round, in a folder of its own.
debug: deps
	@[ -f $(BUILD)-debug/build.ninja ] || meson setup $(BUILD)-debug -Ddebug_checks=true
	ninja -C $(BUILD)-debug

deps:
	@tools/deps

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD)

# The library, the program, the manual pages: below PREFIX, or, for packagers, as if below PREFIX but in DESTDIR.
PREFIX ?= /usr/local
configured = meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) >/dev/null
install: $(BUILD)/build.ninja
	@$(configured)
	ninja -C $(BUILD) installed
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	@[ -n "$(DESTDIR)" ] || ! [ -w /etc/ld.so.cache ] || ldconfig

# The same PREFIX and DESTDIR as they were installed with.
uninstall: $(BUILD)/build.ninja
	@$(configured)
	@tools/uninstall $(BUILD) $(if $(DESTDIR),$(abspath $(DESTDIR)))

# The Debian packages, from what git has here, in $(BUILD)/deb; lintian has nothing to say of them.
deb: deps
	@tools/deps deb
	@tools/deb $(BUILD)/deb

# The packages in a clean Debian 12, upgraded from an older one of them: as root, a few minutes. AGAIN=again: with the Debian that
# the last run has fetched.
test-deb: deb
	@tools/deps test-deb
	@tools/deb $(BUILD)/deb-older "$$(sed -nE '1s/.*\((.*)\).*/\1/p' debian/changelog)~older" >/dev/null
	@tests/deb/run $(BUILD)/deb $(BUILD)/deb-older $(AGAIN)

# Hosts of the last version under load, replaced one by one by this one, and back: two minutes. FROM: another commit.
test-upgrade: all
	@tests/upgrade/run $(BUILD) $(FROM)

# 8 groups of 3 replicas, load, a host killed and brought back, and a verdict, in 12 seconds.
demo: all
	@$(BUILD)/tram demo

# Tree and genuine compared, in a few minutes: REPORT/index.html with plots, and the tables as REPORT/compare.md.
# More options in BENCH, for instance make bench BENCH="--layout procs".
REPORT ?= $(BUILD)/bench-report
bench: all
	@mkdir -p $(REPORT)
	@$(BUILD)/tram bench --compare --report $(REPORT) $(BENCH) > $(REPORT)/compare.md
	@echo "wrote $(REPORT)/compare.md"

# Everything, in all three builds; ends with "N passed, N failed".
test: deps
	@tools/run-tests --build $(BUILD)

# All schedules of a take-over within larger bounds than `make test` has time for (tests/model): some minutes, with
# progress on stderr.
model: all
	@$(BUILD)/tests/model/log_model --large

# Over RDMA verbs, in virtual machines with software RDMA; ends with "N passed, N failed", or says why it was skipped.
test-rdma: all
	@tests/rdma/run $(BUILD)

# The page that hosts serve, in a headless Chromium.
test-page: all
	@tools/deps page
	@tests/page/run $(BUILD)

# Members of a group that are killed, stopped, cut off and leave, 200 times, on shared memory and over tcp.
test-group: all
	@$(BUILD)/tests/proc/proc_group_kill 200 shm
	@$(BUILD)/tests/proc/proc_group_kill 200 net

# Each member of groups with members that are only memory killed, stopped and back, 200 times under load, on shared memory and over
# tcp, and with disks; some 20 minutes.
test-memories: all
	@for layout in "2 1 all tcp 200" "2 1 all shm 200" "2 3 memories tcp 200" "2 3 memories shm 200" "2 3 all tcp 200" \
	    "2 1 all tcp 200 durable" "2 3 memories tcp 200 durable"; do \
	    TRAM=$(abspath $(BUILD)/tram) tests/proc/memory_kill $$layout || exit 1; done

# All hosts of a durable group killed at one moment, any majority started again, 100 times: a quarter of an hour.
test-group-killed: all
	@TRAM=$(abspath $(BUILD)/tram) tests/proc/group_all_killed 100

# The keepers of a group are killed one after another, and others take their place: shared memory, TCP, TCP with disks. Two minutes.
test-group-moves: all
	@TRAM=$(abspath $(BUILD)/tram) tests/proc/group_moves

# A killed host returns to a group with a state of LARGE megabytes, under full load; no call waits for more than 200 ms. And all
# hosts of a durable group with 1 GiB and 256 MiB of journal: it serves within 5 s.
LARGE ?= 200
test-large: all
	@TRAM=$(abspath $(BUILD)/tram) tests/proc/large $(abspath $(BUILD)/tests/proc/proc_large_state) $(LARGE) 200
	@$(BUILD)/tests/proc/proc_group_join $(LARGE) 0 shm
	@$(BUILD)/tests/proc/proc_group_join $(LARGE) 0 tcp
	@TRAM=$(abspath $(BUILD)/tram) tests/proc/restart $(abspath $(BUILD)/tests/proc/proc_restart) 1024 256 1024 5000

# The part of the tests that runs under AddressSanitizer and UBSan, or under ThreadSanitizer.
asan tsan: deps
	@tools/run-tests --build $(BUILD) $@

# More power cuts than `make test` has time for: 1,000 of real processes under either protocol, thousands of seeds of the
# simulator, and the mistakes that take many; some 40 minutes.
test-durable: all
	@TRAM=$(abspath $(BUILD)/tram) TRAM_PLANTED=$(abspath $(BUILD)/tram-planted) TRAM_LONG=1 tests/sim/durable
	@$(BUILD)/tests/proc/proc_power tree cuts=1000
	@$(BUILD)/tests/proc/proc_power genuine cuts=1000

# 5,000 seeds of the log among liars, by every strategy, and each mistake that it is known to find; some 30 minutes.
test-bft: all
	@TRAM=$(abspath $(BUILD)/tram) tests/sim/bft_seeds 5000
	@TRAM_PLANTED=$(abspath $(BUILD)/tram-planted) tests/sim/bft_planted

# The fuzzers under AddressSanitizer, FACTOR times as long as `make test` has time for.
FACTOR ?= 10
fuzz: deps
	@[ -f $(BUILD)-asan/build.ninja ] || meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
	ninja -C $(BUILD)-asan
	@FUZZ_FACTOR=$(FACTOR) meson test -C $(BUILD)-asan --no-rebuild -t $(FACTOR) fuzz_cluster fuzz_disk fuzz_ofi fuzz_tcp fuzz_tls

# Lines and branches of src that the tests run, by folder. COVERAGE="--suite unit" for less, and sooner.
coverage: deps
	@tools/deps coverage
	@tools/coverage --build $(BUILD) $(COVERAGE)

format:
	clang-format -i $(SOURCES)

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-coverage $(BUILD)-debug
