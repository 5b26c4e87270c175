"""Where a message is, and what became of it: the answer to "why is my message not there?"."""
