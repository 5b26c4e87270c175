"""Services on a queue manager: listener ports, bridges, handlers, and the queues of Everyplace."""
