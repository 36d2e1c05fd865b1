"""Server processes behind one port."""
