"""Every operation of HLO, declared once, one file for each family."""
