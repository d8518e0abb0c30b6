"""Operations that a code generator need not know, written with those that it knows."""
