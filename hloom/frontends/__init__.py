"""Languages other than HLO in which programs come in and go out."""
