//! What a component answers to a batch: a byte a message, then a delay for each that is rescheduled.

use crate::filter::{Broke, BrokeKind, Delay, Verdict};

/// Reads an answer for `n` messages and appends their verdicts; on an error `verdicts` is as it was.
///
/// # Errors
/// [`BrokeKind::BadAnswer`] for another length or another byte.
pub(super) fn read(answer: &[u8], n: usize, verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
    let Some((codes, delays)) = answer.split_at_checked(n) else {
        return bad(&format!("{} verdicts for {n} messages", answer.len()));
    };
    // Folded over all of them, not up to the first bad one, so that it becomes vector instructions.
    let most = codes.iter().fold(0, |most, code| *code.max(&most));
    if most > 3 {
        let unknown = codes.iter().find(|code| **code > 3);
        return bad(&format!("the verdict {unknown:?}, expected 0 to 3"));
    }
    if most <= 1 && delays.is_empty() {
        // Nearly all answers are yes or no, and among these two no branch is mispredicted.
        let yes_or_no = |code: &u8| if *code == 0 { Verdict::Accept } else { Verdict::Reject };
        verdicts.extend(codes.iter().map(yes_or_no));
        return Ok(());
    }
    let rescheduled = codes.iter().map(|code| usize::from(*code == 2)).sum::<usize>();
    let (delays, rest) = delays.as_chunks::<4>();
    if delays.len() != rescheduled || !rest.is_empty() {
        return bad(&format!(
            "{} bytes of delays for {rescheduled} messages to reschedule, expected 4 for each",
            answer.len() - n
        ));
    }
    let mut delays = delays.iter();
    verdicts.extend(codes.iter().map(|code| match code {
        0 => Verdict::Accept,
        1 => Verdict::Reject,
        2 => {
            let millis = delays.next().map_or(0, |delay| u32::from_le_bytes(*delay));
            Verdict::Reschedule(Delay::from_millis(millis))
        }
        _ => Verdict::Broke,
    }));
    Ok(())
}

fn bad(what: &str) -> Result<(), Broke> {
    Err(Broke { kind: BrokeKind::BadAnswer, reason: format!("it answered with {what}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_is_read() {
        let mut verdicts = vec![Verdict::Broke];
        let answer = [0, 1, 2, 3, 2, 0xdc, 5, 0, 0, 0xff, 0xff, 0xff, 0xff];
        read(&answer, 5, &mut verdicts).unwrap();
        let later = |millis| Verdict::Reschedule(Delay::from_millis(millis));
        assert_eq!(
            verdicts[1..],
            [Verdict::Accept, Verdict::Reject, later(1500), Verdict::Broke, later(u32::MAX)]
        );
        read(&[], 0, &mut verdicts).unwrap();
        assert_eq!(verdicts.len(), 6);
    }

    #[track_caller]
    fn refused(answer: &[u8], n: usize, because: &str) {
        let mut verdicts = vec![Verdict::Accept];
        let broke = read(answer, n, &mut verdicts).unwrap_err();
        assert_eq!((broke.kind, &verdicts[..]), (BrokeKind::BadAnswer, &[Verdict::Accept][..]));
        assert!(broke.reason.contains(because), "{}", broke.reason);
    }

    #[test]
    fn anything_else_is_a_bad_answer() {
        refused(&[0], 2, "1 verdicts for 2 messages");
        refused(&[0, 4], 2, "verdict Some(4)");
        refused(&[0, 0, 0], 2, "1 bytes of delays for 0 messages");
        refused(&[2, 0, 1, 0, 0], 2, "3 bytes of delays for 1 messages");
        refused(&[2, 0], 2, "0 bytes of delays");
    }
}
