"""The index that answers when nobody has made one."""
