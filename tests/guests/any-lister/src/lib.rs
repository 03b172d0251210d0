//! Answers as the client's property `do` tells it: every way to make a set, and every way to fail.

use std::hint::black_box;

use weir_plugin_api::{Error, Request, Set, TopicLister, Topics, export};

struct AnyLister;

impl TopicLister for AnyLister {
    type Config = ();
    const CLASS: &'static str = "demo.AnyLister";

    fn new((): ()) -> Result<Self, Error> {
        Ok(Self)
    }

    fn answer<'t>(&mut self, request: &Request, topics: &Topics<'t>) -> Result<Set<'t>, Error> {
        let told = |name: &str| {
            request
                .properties
                .get(name)
                .map(String::as_str)
                .ok_or_else(|| Error::new(format_args!("no {name}")))
        };
        match told("do")? {
            "all" => Ok(topics.all()),
            "none" => topics.named::<&str>(&[]),
            "with-property" => Ok(topics.with_property(told("key")?, told("value")?)),
            "matching" => topics.matching(told("pattern")?),
            "not-matching" => topics.all().without(&topics.matching(told("pattern")?)?),
            // Names, separated by blanks.
            "named" => topics.named(&told("names")?.split(' ').collect::<Vec<_>>()),
            "named-or-matching" => {
                let named = topics.named(&told("names")?.split(' ').collect::<Vec<_>>())?;
                named.unite(&topics.matching(told("pattern")?)?)
            }
            // Reads names back: every other one, in pages of three.
            "every-other" => {
                let all = topics.all();
                let mut names = Vec::new();
                for start in (0..).step_by(3) {
                    let page = all.names(start, 3);
                    if page.is_empty() {
                        break;
                    }
                    names.extend(page);
                }
                topics.named(&names.into_iter().step_by(2).collect::<Vec<_>>())
            }
            "mode" => topics.named(&[format!("persistent://{}/{:?}", request.namespace, request.mode)]),
            "error" => Err(Error::new("told to return an error")),
            "panic" => panic!("told to panic"),
            "loop" => {
                let mut spins = 0_u64;
                loop {
                    spins = black_box(spins.wrapping_add(1));
                }
            }
            // Holds more and more sets, a million at most.
            "hoard" => {
                let mut sets = vec![topics.all()];
                for _ in 0..1_000_000 {
                    sets.push(sets[0].unite(&sets[0])?);
                }
                Ok(sets.swap_remove(0))
            }
            // Holds more and more names of its own.
            "hoard-names" => {
                let mut sets = Vec::new();
                for nth in 0..1000 {
                    let names: Vec<String> =
                        (0..10_000).map(|n| format!("persistent://x/y/{nth}-{n}")).collect();
                    sets.push(topics.named(&names)?);
                }
                Ok(sets.swap_remove(0))
            }
            other => Err(Error::new(format_args!("told to do {other:?}, which it cannot"))),
        }
    }
}

export!(lister AnyLister);
