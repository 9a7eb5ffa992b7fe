"""The commands of the command line; related ones share a file."""
