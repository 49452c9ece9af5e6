"""What client and engine share on disk: the session home and its two logs."""
