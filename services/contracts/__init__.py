"""Wire types: requests of clients and responses of services."""
