"""The structs and constants of the public headers, as ctypes has them.

Each class is named as its struct is, so `tram_item` is `struct tram_item`. tests/python/abi compares all of it with the headers,
by a C program: sizes, offsets, types of callbacks, constants.
"""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int16, c_size_t, c_uint,
                    c_uint16, c_uint32, c_uint64, c_void_p)
from typing import Any

__all__ = ["POINTER", "c_bool", "c_char_p", "c_double", "c_int", "c_int16", "c_size_t", "c_uint", "c_uint16", "c_uint32",
           "c_uint64", "c_void_p"]

TRAM_ERROR_BYTES = 512
TRAM_REPLICAS_MAX = 9
TRAM_WAITS = 11
TRAM_REQUESTS_KEPT = 64
TRAM_MEMBERS_MAX = 64
TRAM_COLUMNS = 16
TRAM_BYTES_UNKNOWN = 2**64 - 1
TRAM_NOT_RESTORING = 2**32 - 1
TRAM_ANY_HOST = 2**32 - 1
TRAM_LOST_SOME = 2**64 - 1


# Callbacks see bytes by their address: what is in them is copied before the callback is over.
def callback(result: Any, *arguments: Any) -> Any:
    return CFUNCTYPE(result, *arguments)


class tram_error(Structure):
    _fields_ = [("text", c_char * TRAM_ERROR_BYTES)]


class tram_log(Structure):
    _fields_ = [("line", callback(None, c_void_p, c_int, c_char_p)), ("ctx", c_void_p), ("least", c_int)]


# ---- hosts ----

class tram_delivery(Structure):
    _fields_ = [("group", c_uint32), ("client", c_uint32), ("life", c_uint32), ("seq", c_uint64), ("number", c_uint64),
                ("dst", POINTER(c_uint16)), ("dst_count", c_uint32), ("body", c_void_p), ("bytes", c_uint32)]


# What saves and loads a state, of tram_machine and of tram_group_machine alike.
STATE: list[tuple[str, Any]] = [
    ("save", callback(c_int, c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t))),
    ("load", callback(c_int, c_void_p, c_uint32, c_void_p, c_size_t)),
    ("save_open", callback(c_void_p, c_void_p, c_uint32, POINTER(c_uint64))),
    ("save_next", callback(c_int, c_void_p, c_uint32, c_void_p, c_void_p, c_uint32)),
    ("save_close", callback(None, c_void_p, c_uint32, c_void_p)),
    ("load_open", callback(c_int, c_void_p, c_uint32, c_uint64)),
    ("load_next", callback(c_int, c_void_p, c_uint32, c_void_p, c_uint32)),
    ("load_close", callback(c_int, c_void_p, c_uint32, c_bool)),
]


class tram_machine(Structure):
    _fields_ = [("deliver", callback(c_uint32, c_void_p, POINTER(tram_delivery), c_void_p, c_uint32)), *STATE]


class tram_host_options(Structure):
    _fields_ = [("name", c_char_p), ("machine", tram_machine), ("ctx", c_void_p), ("trace_dir", c_char_p), ("log", tram_log)]


class tram_replica_stats(Structure):
    _fields_ = [("group", c_uint32), ("rank", c_uint32), ("role", c_int), ("leader", c_uint32), ("ballot", c_uint64),
                ("applied", c_uint64), ("commit", c_uint64), ("tail", c_uint64), ("attached", c_uint32), ("behind", c_bool),
                ("delivered", c_uint64), ("terms", c_uint64), ("muted", c_uint32),
                ("detached_ms", c_uint32 * TRAM_REPLICAS_MAX), ("kept", c_uint64), ("unkept", c_uint64), ("lacks", c_bool),
                ("lacks_from", c_uint64), ("lacks_to", c_uint64), ("stands", c_bool), ("restored_percent", c_uint32),
                ("waits", c_uint64 * TRAM_WAITS)]


class tram_disk_stats(Structure):
    _fields_ = [("state", c_int), ("restored_percent", c_uint32), ("journal_bytes", c_uint64), ("journal_bytes_max", c_uint64),
                ("flush_p50_ns", c_uint64), ("flush_p99_ns", c_uint64), ("waiting_bytes", c_uint64), ("writes", c_uint64),
                ("written_bytes", c_uint64)]


# ---- clients ----

class tram_client_options(Structure):
    _fields_ = [("trace_dir", c_char_p), ("reply", callback(None, c_void_p, c_uint64, c_uint32, c_void_p, c_uint32)),
                ("done", callback(None, c_void_p, c_uint64)), ("ctx", c_void_p), ("log", tram_log)]


class tram_request(Structure):
    _fields_ = [("groups", POINTER(c_uint16)), ("count", c_uint32), ("body", c_char_p), ("bytes", c_uint32),
                ("number", c_uint64)]


class tram_replies(Structure):
    _fields_ = [("room", c_void_p), ("max", c_uint32), ("lengths", POINTER(c_uint32))]


# ---- groups ----

class tram_view_cell(Structure):
    _fields_ = [("subgroup", c_char_p), ("shard", c_uint32), ("state", c_int), ("members", c_uint64), ("senders", c_uint64),
                ("stateful", c_uint64), ("members_last", c_uint64), ("born", c_uint64), ("lacks", c_uint32)]


class tram_view(Structure):
    _fields_ = [("number", c_uint64), ("adequate", c_bool), ("members", c_uint64), ("left", c_uint64), ("hosts", c_uint32),
                ("cells", c_uint32), ("host_name", POINTER(c_char_p)), ("life", POINTER(c_uint64)),
                ("cell", POINTER(tram_view_cell))]


class tram_item(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint32), ("sender", c_uint32), ("number", c_uint64), ("client", c_uint32)]


# A batch of items in one go; the same layout.
ITEM_FORMAT = "@PIIQI4x"


class tram_answer(Structure):
    _fields_ = [("host", c_uint32), ("status", c_int), ("data", c_void_p), ("bytes", c_uint32), ("version", c_uint64)]


# Batches come with the address of the first item.
class tram_group_machine(Structure):
    _fields_ = [("deliver", callback(None, c_void_p, c_uint32, c_uint64, c_void_p, c_uint32)),
                ("call", callback(c_uint32, c_void_p, c_uint32, c_uint64, c_void_p, c_void_p, c_uint32)),
                ("query", callback(c_int, c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, c_void_p, c_uint32)),
                ("answered", callback(None, c_void_p, c_uint64, POINTER(tram_answer))),
                ("progress", callback(None, c_void_p, c_uint32, c_uint32, c_uint64, c_uint64)),
                ("view", callback(None, c_void_p, POINTER(tram_view), POINTER(tram_view))),
                ("returned", callback(None, c_void_p, c_uint32, c_void_p, c_uint32)),
                ("born", callback(None, c_void_p, c_uint32)),
                ("persisted", callback(None, c_void_p, c_uint32, c_uint64)), *STATE]


class tram_layout_cell(Structure):
    _fields_ = [("state", c_int), ("stateful", c_uint64), ("members", c_uint64), ("senders", c_uint64)]


class tram_layout(Structure):
    _fields_ = [("members", c_uint64), ("cells", c_uint32), ("cell", POINTER(tram_layout_cell))]


LAYOUT = callback(None, c_void_p, POINTER(tram_view), POINTER(tram_layout))


class tram_group_options(Structure):
    _fields_ = [("host", c_char_p), ("machine", tram_group_machine), ("ctx", c_void_p), ("layout", LAYOUT),
                ("layout_ctx", c_void_p), ("wait", c_int), ("leave_ms", c_uint32), ("trace_dir", c_char_p), ("log", tram_log)]


class tram_version(Structure):
    _fields_ = [("version", c_uint64), ("time_ns", c_uint64), ("sender", c_uint32), ("bytes", c_uint32), ("data", c_void_p)]


VERSION = callback(c_int, c_void_p, POINTER(tram_version))


class tram_group_client_options(Structure):
    _fields_ = [("done", callback(None, c_void_p, c_uint64, POINTER(tram_answer))), ("ctx", c_void_p), ("retry_ms", c_uint32),
                ("log", tram_log)]


class tram_group_counts(Structure):
    _fields_ = [(name, c_uint64) for name in (
        "views", "put_out", "sent", "delivered", "delivered_bytes", "nulls", "trimmed", "restamped", "returned", "publishes",
        "upcalls", "row_pushes", "states_sent", "states_loaded")]


# ---- topics ----

SAMPLES = callback(None, c_void_p, c_uint64, c_void_p, c_uint32)


class tram_topic_options(Structure):
    _fields_ = [("role", c_uint), ("qos", c_int), ("from", c_int), ("at", c_uint64), ("on_samples", SAMPLES), ("ctx", c_void_p)]


class tram_client_topic_options(Structure):
    _fields_ = [("role", c_uint), ("qos", c_int), ("from", c_int), ("at", c_uint64), ("on_samples", SAMPLES),
                ("on_lost", callback(None, c_void_p, c_uint64)), ("ctx", c_void_p)]


# ---- the simulator ----

class tram_sim_options(Structure):
    _fields_ = [("seed", c_uint64), ("machine", tram_machine), ("group_machine", tram_group_machine), ("layout", LAYOUT),
                ("step", callback(None, c_void_p, c_char_p, c_void_p, c_void_p)), ("flush_ns_min", c_uint64),
                ("flush_ns_max", c_uint64), ("start", callback(c_void_p, c_void_p, c_char_p)),
                ("end", callback(None, c_void_p, c_char_p, c_void_p)), ("user", c_void_p), ("clients", c_uint32),
                ("delay_ns_min", c_uint64), ("delay_ns_max", c_uint64), ("compare_every", c_uint32), ("replies_only", c_bool),
                ("state_call_ns", c_uint64), ("state_kib_ns", c_uint64), ("trace", c_void_p)]


AT = callback(None, c_void_p, c_void_p)


class tram_sim_finding(Structure):
    _fields_ = [("property", c_char * 24), ("group", c_uint32), ("host", c_uint32 * 2), ("client", c_uint32),
                ("life", c_uint32), ("seq", c_uint64), ("number", c_uint64), ("time_ns", c_uint64),
                ("text", c_char * TRAM_ERROR_BYTES)]
