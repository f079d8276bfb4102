"""What firmware files say of themselves, one module a format. Pure."""
