"""The way of a request through the embedded API server; `server` shows it whole, the other modules are its steps."""
