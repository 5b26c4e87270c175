"""Listener ports and activation specifications: messages are received and handed to a function.

Each call of it is one transaction, which a timeout may mark for rollback; see docs/LISTENERS.md.
"""

from mayfly.services.listener.activation import ActivationSpec
from mayfly.services.listener.port import ListenerPort
from mayfly.services.listener.server_session import current_transaction
from mayfly.services.listener.service import MessageListenerService
from mayfly.services.listener.statistics import Statistics
from mayfly.services.listener.timeouts import check_timeouts
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
