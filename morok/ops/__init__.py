"""The tensor API by family: methods that build graphs; nothing here runs anything."""
