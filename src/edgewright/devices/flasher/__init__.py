"""The program in a flash Pod: `python -m edgewright.devices.flasher`."""
