//! Extensions that are part of weir: closures behind the same trait as artifacts, so that nobody has to
//! ask whether an extension is one.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::artifact::{Description, Loaded};
use crate::extensions::{ClassName, Kind};
use crate::filter::{Broke, BrokeKind, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;

type NewFilter = dyn Fn(&Value) -> Result<Box<dyn MessageFilter>, Broke> + Send + Sync;
type NewLister = dyn Fn(&Value) -> Result<Box<dyn TopicLister>, Broke> + Send + Sync;
type Reads = dyn Fn(&Value) -> Result<Vec<Field>, Broke> + Send + Sync;

/// A built-in extension, to be handed to [`Extensions`](crate::Extensions).
pub struct Builtin {
    description: Description,
    reads: Box<Reads>,
    make: Make,
}

enum Make {
    Filter(Box<NewFilter>),
    Lister(Box<NewLister>),
}

impl Builtin {
    /// A filter that reads `fields`; `new` makes an instance from a configuration.
    pub fn filter(
        class: ClassName,
        fields: Vec<Field>,
        new: impl Fn(&Value) -> Result<Box<dyn MessageFilter>, Broke> + Send + Sync + 'static,
    ) -> Self {
        let reads = Box::new(move |_: &Value| Ok(fields.clone()));
        Self { description: describe(class, Kind::Filter), reads, make: Make::Filter(Box::new(new)) }
    }

    /// A lister; `new` makes an instance from a configuration.
    pub fn lister(
        class: ClassName,
        new: impl Fn(&Value) -> Result<Box<dyn TopicLister>, Broke> + Send + Sync + 'static,
    ) -> Self {
        let reads = Box::new(|_: &Value| Ok(Vec::new()));
        Self { description: describe(class, Kind::Lister), reads, make: Make::Lister(Box::new(new)) }
    }

    /// With this JSON Schema for its configuration. Without one, any object is taken.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.description.schema = schema;
        self
    }

    /// With this version. Without one, it has weir's.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.description.version);
        self
    }

    /// With fields that depend on the configuration; an error refuses the configuration.
    #[must_use]
    pub fn with_reads(
        mut self,
        reads: impl Fn(&Value) -> Result<Vec<Field>, Broke> + Send + Sync + 'static,
    ) -> Self {
        self.reads = Box::new(reads);
        self
    }
}

impl Loaded for Builtin {
    fn description(&self) -> &Description {
        &self.description
    }

    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke> {
        (self.reads)(&parse(config)?)
    }

    fn filter(&self, config: &str, _: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke> {
        match &self.make {
            Make::Filter(new) => new(&parse(config)?),
            Make::Lister(_) => Err(error(format!("{} is not a filter", self.description.class))),
        }
    }

    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke> {
        match &self.make {
            Make::Lister(new) => new(&parse(config)?),
            Make::Filter(_) => Err(error(format!("{} is not a lister", self.description.class))),
        }
    }
}

fn describe(class: ClassName, kind: Kind) -> Description {
    Description {
        class,
        kinds: vec![kind],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        contract: "1.0".to_owned(),
        schema: json!({ "type": "object" }),
    }
}

fn parse(config: &str) -> Result<Value, Broke> {
    serde_json::from_str(config).map_err(|cause| error(format!("its configuration is no JSON: {cause}")))
}

fn error(reason: String) -> Broke {
    Broke { kind: BrokeKind::Error, reason }
}
