"""Files that client and engine share: the session home and its two logs."""
