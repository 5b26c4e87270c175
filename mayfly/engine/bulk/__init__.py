"""Reading by claims and writing by stages: the queue manager's side of the bulk plane."""
