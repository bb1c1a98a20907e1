"""The functions of the public headers that this package calls: what each takes and returns.

tests/python/abi compares this with the headers, and knows what is left out and why.
"""
from ctypes import CDLL, POINTER, c_bool, c_char_p, c_int, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

from . import _structs as s

handle = c_void_p
data = c_char_p  # bytes of Python, which nobody changes
error = POINTER(s.tram_error)
groups = POINTER(c_uint16)
ticket = POINTER(c_uint64)
out = POINTER(c_void_p)

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tram_version": (c_char_p, []),
    "tram_code_text": (c_char_p, [c_int]),

    "tram_cluster_load": (c_int, [c_char_p, out, error]),
    "tram_cluster_parse": (c_int, [c_char_p, c_char_p, out, error]),
    "tram_cluster_free": (None, [handle]),
    "tram_cluster_rename": (c_int, [handle, c_char_p, error]),
    "tram_cluster_log": (None, [handle, POINTER(s.tram_log)]),
    "tram_cluster_groups": (c_uint32, [handle]),
    "tram_cluster_hosts": (c_uint32, [handle]),
    "tram_cluster_group_name": (c_char_p, [handle, c_uint32]),
    "tram_cluster_host_name": (c_char_p, [handle, c_uint32]),
    "tram_cluster_reply_max": (c_uint32, [handle]),

    "tram_host_format": (c_int, [handle, c_char_p, error]),
    "tram_host_open": (c_int, [handle, POINTER(s.tram_host_options), out, error]),
    "tram_host_step": (c_int, [handle, error]),
    "tram_host_poll": (c_int, [handle, error]),
    "tram_host_fd": (c_int, [handle, error]),
    "tram_host_wake": (None, [handle]),
    "tram_host_close": (None, [handle]),
    "tram_host_replica": (c_int, [handle, c_uint32, POINTER(s.tram_replica_stats)]),
    "tram_host_disk": (c_int, [handle, POINTER(s.tram_disk_stats)]),
    "tram_disk_state_text": (c_char_p, [c_int]),

    "tram_client_open": (c_int, [handle, POINTER(s.tram_client_options), out, error]),
    "tram_client_close": (None, [handle]),
    "tram_client_place": (c_uint32, [handle]),
    "tram_client_life": (c_uint32, [handle]),
    "tram_cast": (c_int, [handle, groups, c_uint32, data, c_uint32, ticket, error]),
    "tram_client_flush": (None, [handle]),
    "tram_client_poll": (c_int, [handle]),
    "tram_client_wait": (c_int, [handle, c_uint64]),
    "tram_client_fd": (c_int, [handle, error]),
    "tram_client_wake": (None, [handle]),
    "tram_client_done": (c_bool, [handle, c_uint64]),
    "tram_client_outstanding": (c_uint32, [handle]),
    "tram_client_window": (c_uint32, [handle]),
    "tram_call": (c_int, [handle, groups, c_uint32, data, c_uint32, c_void_p, c_uint32, POINTER(c_uint32), c_uint64, error]),
    "tram_cast_request": (c_int, [handle, POINTER(s.tram_request), ticket, error]),
    "tram_await": (c_int, [handle, c_uint64, POINTER(s.tram_replies), c_uint64, error]),
    "tram_client_last": (c_uint64, [handle]),

    "tram_group_open": (c_int, [handle, POINTER(s.tram_group_options), out, error]),
    "tram_group_close": (None, [handle]),
    "tram_group_leave": (None, [handle]),
    "tram_group_has_left": (c_bool, [handle]),
    "tram_group_step": (c_int, [handle, error]),
    "tram_group_poll": (c_int, [handle, error]),
    "tram_group_fd": (c_int, [handle, error]),
    "tram_group_wake": (None, [handle]),
    "tram_versions_read": (c_int, [handle, c_char_p, c_char_p, c_uint64, c_uint64, s.VERSION, c_void_p, error]),
    "tram_group_cell": (c_int, [handle, c_char_p, c_uint32]),
    "tram_group_send": (c_int, [handle, c_uint32, data, c_uint32, error]),
    "tram_sender_open": (c_int, [handle, c_uint32, c_uint32, out, error]),
    "tram_sender_close": (None, [handle]),
    "tram_sender_send": (c_int, [handle, data, c_uint32, error]),
    "tram_sender_waiting": (c_uint64, [handle]),
    "tram_group_call": (c_int, [handle, c_uint32, data, c_uint32, c_uint32, ticket, error]),
    "tram_group_query": (c_int, [handle, c_uint32, c_uint32, c_uint64, data, c_uint32, c_uint32, ticket, error]),
    "tram_group_time": (c_uint64, [handle, c_uint32]),
    "tram_group_version": (c_uint64, [handle, c_uint32]),
    "tram_group_ask_max": (c_uint32, [handle]),
    "tram_group_persisted": (c_uint64, [handle, c_uint32, c_uint32]),
    "tram_group_message_max": (c_uint32, [handle, c_uint32]),
    "tram_group_view": (POINTER(s.tram_view), [handle]),
    "tram_group_has_state": (c_bool, [handle, c_uint32]),
    "tram_group_waits": (c_char_p, [handle]),
    "tram_group_relayout": (None, [handle]),
    "tram_group_reset_cell": (c_int, [handle, c_uint32, error]),
    "tram_group_counts": (None, [handle, POINTER(s.tram_group_counts)]),
    "tram_column_set": (None, [handle, c_uint32, c_uint32, c_uint64]),
    "tram_column_get": (c_uint64, [handle, c_uint32, c_uint32, c_uint32]),
    "tram_column_min": (c_uint64, [handle, c_uint32, c_uint32]),

    "tram_group_client_open": (c_int, [handle, POINTER(s.tram_group_client_options), out, error]),
    "tram_group_client_close": (None, [handle]),
    "tram_group_client_cell": (c_int, [handle, c_char_p, c_uint32]),
    "tram_group_client_send": (c_int, [handle, c_uint32, data, c_uint32, ticket, error]),
    "tram_group_client_call": (c_int, [handle, c_uint32, data, c_uint32, c_uint32, ticket, error]),
    "tram_group_client_query": (c_int, [handle, c_uint32, c_uint64, data, c_uint32, c_uint32, ticket, error]),
    "tram_group_client_poll": (c_int, [handle, error]),
    "tram_group_client_wait": (c_int, [handle, c_uint64, error]),
    "tram_group_client_fd": (c_int, [handle, error]),
    "tram_group_client_wake": (None, [handle]),
    "tram_group_client_outstanding": (c_uint32, [handle]),
    "tram_group_client_waits": (c_char_p, [handle, c_uint32]),
    "tram_group_client_message_max": (c_uint32, [handle, c_uint32]),
    "tram_group_client_ask_max": (c_uint32, [handle]),

    "tram_topic_open": (c_int, [handle, c_char_p, POINTER(s.tram_topic_options), out, error]),
    "tram_topic_close": (None, [handle]),
    "tram_topic_lost": (c_uint64, [handle]),
    "tram_publish": (c_int, [handle, data, c_uint32, error]),
    "tram_client_topic_open": (c_int, [handle, c_char_p, POINTER(s.tram_client_topic_options), out, error]),
    "tram_client_topic_close": (None, [handle]),
    "tram_client_publish": (c_int, [handle, data, c_uint32, ticket, error]),
    "tram_client_topic_fed": (c_bool, [handle]),

    "tram_sim_open": (c_int, [handle, POINTER(s.tram_sim_options), out, error]),
    "tram_sim_close": (None, [handle]),
    "tram_sim_step": (c_int, [handle, error]),
    "tram_sim_run": (c_int, [handle, c_uint64, error]),
    "tram_sim_run_idle": (c_int, [handle, c_uint64, error]),
    "tram_sim_run_done": (c_int, [handle, handle, c_uint64, c_uint64, error]),
    "tram_sim_at": (c_int, [handle, c_uint64, s.AT, c_void_p, error]),
    "tram_sim_now": (c_uint64, [handle]),
    "tram_sim_events": (c_uint64, [handle]),
    "tram_sim_hash": (c_uint64, [handle]),
    "tram_sim_client_open": (c_int, [handle, POINTER(s.tram_client_options), out, error]),
    "tram_sim_kill": (c_int, [handle, c_char_p, c_bool, error]),
    "tram_sim_start": (c_int, [handle, c_char_p, error]),
    "tram_sim_power_cut": (c_int, [handle, c_char_p, error]),
    "tram_sim_stop": (c_int, [handle, c_char_p, error]),
    "tram_sim_continue": (c_int, [handle, c_char_p, error]),
    "tram_sim_cut": (c_int, [handle, c_char_p, c_char_p, c_bool, error]),
    "tram_sim_delay": (c_int, [handle, c_char_p, c_char_p, c_uint64, error]),
    "tram_sim_chaos": (None, [handle]),
    "tram_sim_heal": (None, [handle]),
    "tram_sim_leader": (c_char_p, [handle, c_char_p]),
    "tram_sim_replica": (c_int, [handle, c_char_p, c_char_p, POINTER(s.tram_replica_stats)]),
    "tram_sim_group": (c_void_p, [handle, c_char_p]),
    "tram_sim_versions_read": (c_int, [handle, c_char_p, c_char_p, c_uint64, c_uint64, s.VERSION, c_void_p, error]),
    "tram_sim_ctx": (c_void_p, [handle, c_char_p]),
    "tram_sim_check": (c_int, [handle, POINTER(s.tram_sim_finding), error]),
}


def declare(library: CDLL) -> None:
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
