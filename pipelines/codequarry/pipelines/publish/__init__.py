"""Publishing versions, retention and rollback."""
