"""Native code for each kind of thunk: one function a kind, registered in `EMITS`."""
