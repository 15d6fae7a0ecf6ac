"""What is trained, how it is certified, when it stops: everything that knows no engine."""
