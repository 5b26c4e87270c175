"""The rule of safe timeouts: receive and longest on_message fit into one transaction (L10)."""

from __future__ import annotations

from mayfly.lifetime.times import ms_of_seconds


def check_timeouts(
    *,
    receive_timeout_ms: int,
    total_tran_lifetime_timeout_s: int,
    longest_on_message_ms: int,
) -> list[str]:
    """Return what is wrong with timeouts, one sentence each; empty when they are safe (L10).

    The receive timeout must be shorter than the total transaction lifetime, and what is left of the
    lifetime after it longer than the longest on_message; equal is not safe. A lifetime of 0 is no
    limit. A receive timeout of 0 is ASF, where the transaction starts behind the receive. Raises
    ValueError for a negative value and TypeError for no number, which they name.
    """
    given = {
        "receive_timeout_ms": receive_timeout_ms,
        "total_tran_lifetime_timeout_s": total_tran_lifetime_timeout_s,
        "longest_on_message_ms": longest_on_message_ms,
    }
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} {value!r} is no number")
        if value < 0:
            raise ValueError(f"{name} {value} is negative")
    if not total_tran_lifetime_timeout_s:
        return []
    lifetime_ms = ms_of_seconds(total_tran_lifetime_timeout_s)
    left_ms = lifetime_ms - receive_timeout_ms
    lifetime = f"the total transaction lifetime timeout of {lifetime_ms} ms"
    problems = []
    if left_ms <= 0:
        problems.append(
            f"the receive timeout of {receive_timeout_ms} ms is not less than {lifetime}"
        )
    if longest_on_message_ms >= max(left_ms, 0) and longest_on_message_ms:
        problems.append(
            f"{max(left_ms, 0)} ms are left of {lifetime} after a receive of {receive_timeout_ms} "
            f"ms, not more than the {longest_on_message_ms} ms of the longest on_message"
        )
    return problems
