use weir_plugin_api::native::v1_1;

use super::*;

/// What a host of the next minor does with a library of that minor.
pub(super) fn open_as_next_minor(header: &'static LibHeader, version: String) -> Result<Library, OpenError> {
    let root: v1_1::RootRef = header.init_root_module().map_err(|error| OpenError(explain(&error)))?;
    let authors = root.authors().ok_or_else(|| OpenError("it names no authors".into()))?;
    assert!(!authors().is_empty());
    Ok(Library {
        version,
        start: root.start(),
        describe: root.describe(),
        filter: root.filter(),
        lister: root.lister(),
    })
}

#[test]
fn words_are_read() {
    let mut verdicts = Vec::new();
    read(&[0, 1, 2 | 1500 << 32, 3], &mut verdicts).unwrap();
    let later = Verdict::Reschedule(std::time::Duration::from_millis(1500));
    assert_eq!(verdicts, [Verdict::Accept, Verdict::Reject, later, Verdict::Broke]);
    assert_eq!(read(&[0, 4], &mut verdicts).unwrap_err().kind, BrokeKind::BadAnswer);
    assert_eq!(verdicts.len(), 4);
}
