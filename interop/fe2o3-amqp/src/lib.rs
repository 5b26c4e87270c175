//! Nothing of its own: its build is that of the packages which the tests use.
