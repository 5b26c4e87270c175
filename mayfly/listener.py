"""Listener ports and activation specifications: messages are received and handed to a function.

Each call of it is one transaction, which a timeout may mark for rollback; see docs/LISTENERS.md.
"""

from mayfly.services.listener.ports import ActivationSpec, ListenerPort, MessageListenerService
from mayfly.services.listener.sessions import Statistics, current_transaction
from mayfly.services.listener.settings import check_timeouts
from mayfly.services.listener.transactions import (
    Status,
    Transaction,
    TransactionRolledBack,
    TransactionService,
)

__all__ = [
    "ActivationSpec",
    "ListenerPort",
    "MessageListenerService",
    "Statistics",
    "Status",
    "Transaction",
    "TransactionRolledBack",
    "TransactionService",
    "check_timeouts",
    "current_transaction",
]
