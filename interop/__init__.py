"""Real clients of AMQP 1.0, in their own languages, against a server of this machine."""
