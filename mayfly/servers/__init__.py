"""What others connect to: each server speaks one protocol for the queue managers it is given."""
