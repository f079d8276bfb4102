"""Signed webhooks that tell other programs when a FirmwareRollout pauses, fails, needs approval or ends.

`loop` is a controller of its own, added only where a webhook is configured: what it waits for holds up no rollout.
`transitions` decides what is told, `outbox` remembers it on the rollout until it was delivered, `messages` and
`signatures` write it as CloudEvents and Standard Webhooks have it, and `delivery` sends it.
"""
