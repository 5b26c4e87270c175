"""AMQP 1.0 for queue managers: links are queues and topics; ttl and delivery time are obeyed."""
