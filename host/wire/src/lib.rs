//! Bytes to commands and back, for both protocols. Pure: no I/O.
