//! Judges messages, lists topics: the contract for authors of extensions.
