"""What is defined: queues, processes and their attributes; made, changed, asked, resolved."""
