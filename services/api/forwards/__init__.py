"""Tool services under the gateway's own address: requests are passed on as they come."""
