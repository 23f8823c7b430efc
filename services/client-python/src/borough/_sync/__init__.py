# Generated from ../_async by `generate`. Do not edit.
"""The client for blocking. The blocking one is generated from it."""
