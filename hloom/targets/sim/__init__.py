"""A target that runs programs for any devices here, and says what time they would take."""
