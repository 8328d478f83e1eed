"""Accounts, homes and storage of people on this machine, looked up without blocking the Hub."""
