"""The model registry: names, and where the weights behind them lie."""
