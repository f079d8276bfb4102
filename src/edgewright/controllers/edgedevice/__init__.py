"""The controllers of EdgeDevices: their labels, bucket claims and workloads, requests to be let in, and device sets."""
