"""FlashJob: flashes each device that a job names, once for each desired state, and records what came of it.

Two loops share the work. `job_loop` is for FlashJobs: it checks the spec, finds the Devices, admits starts by writing
claims, and shows the status. `device_loop` is for Devices: it takes one claim through Service, address, Pod and
outcome, and cleans up. All that must be remembered stands on the Device.
"""
