//! Pulsar's admin calls, as far as the command line needs them.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use super::model::{PartitionedMetadata, TenantInfo};
use super::{Admin, AdminError, Call};

/// The parts of a topic's path: domain, tenant, namespace, local name.
struct Topic<'a>([&'a str; 4]);

/// `persistent://tenant/namespace/name`; without a domain it is persistent.
fn topic(name: &str) -> Result<Topic<'_>, AdminError> {
    let refuse = || AdminError::Name {
        name: name.to_owned(),
        expected: "topic; expected persistent://tenant/namespace/name",
    };
    let (domain, rest) = name.split_once("://").unwrap_or(("persistent", name));
    let mut parts = rest.splitn(3, '/');
    let (Some(tenant), Some(namespace), Some(local)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(refuse());
    };
    if !matches!(domain, "persistent" | "non-persistent")
        || tenant.is_empty()
        || namespace.is_empty()
        || local.is_empty()
    {
        return Err(refuse());
    }
    Ok(Topic([domain, tenant, namespace, local]))
}

fn namespace(name: &str) -> Result<(&str, &str), AdminError> {
    let parts = name
        .split_once('/')
        .filter(|(tenant, local)| !tenant.is_empty() && !local.is_empty() && !local.contains('/'));
    parts.ok_or_else(|| AdminError::Name {
        name: name.to_owned(),
        expected: "namespace; expected tenant/namespace",
    })
}

impl Admin {
    /// The clusters that there are.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn clusters(&self) -> Result<Vec<String>, AdminError> {
        self.answer(self.call(Method::GET, &["admin", "v2", "clusters"], &[])).await
    }

    /// The tenants.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn tenants(&self) -> Result<Vec<String>, AdminError> {
        self.answer(self.call(Method::GET, &["admin", "v2", "tenants"], &[])).await
    }

    /// Makes a tenant, in all clusters.
    ///
    /// # Errors
    /// 409: it exists. See [`AdminError`].
    pub async fn create_tenant(&self, tenant: &str) -> Result<(), AdminError> {
        let info = TenantInfo { admin_roles: Vec::new(), allowed_clusters: self.clusters().await? };
        self.done(self.call(Method::PUT, &["admin", "v2", "tenants", tenant], &[]).json(&info)).await
    }

    /// The namespaces of a tenant, as `tenant/namespace`.
    ///
    /// # Errors
    /// 404: there is no such tenant. See [`AdminError`].
    pub async fn namespaces(&self, tenant: &str) -> Result<Vec<String>, AdminError> {
        self.answer(self.call(Method::GET, &["admin", "v2", "namespaces", tenant], &[])).await
    }

    /// Makes a namespace `tenant/namespace`.
    ///
    /// # Errors
    /// 404: there is no such tenant; 409: it exists. See [`AdminError`].
    pub async fn create_namespace(&self, name: &str) -> Result<(), AdminError> {
        let (tenant, local) = namespace(name)?;
        let call = self.call(Method::PUT, &["admin", "v2", "namespaces", tenant, local], &[]);
        self.done(call.json(&serde_json::json!({}))).await
    }

    /// The persistent topics of a namespace, partitions one by one, through the server's lister.
    ///
    /// # Errors
    /// 404: there is no such namespace. See [`AdminError`].
    pub async fn topics(
        &self,
        name: &str,
        properties: &[(String, String)],
    ) -> Result<Vec<String>, AdminError> {
        let (tenant, local) = namespace(name)?;
        let joined = join(properties);
        let query: &[(&str, &str)] =
            if properties.is_empty() { &[] } else { &[("properties", joined.as_str())] };
        self.answer(self.call(Method::GET, &["admin", "v2", "persistent", tenant, local], query)).await
    }

    /// The partitioned topics of a namespace, by their base names.
    ///
    /// # Errors
    /// 404: there is no such namespace. See [`AdminError`].
    pub async fn partitioned_topics(&self, name: &str) -> Result<Vec<String>, AdminError> {
        let (tenant, local) = namespace(name)?;
        let path = ["admin", "v2", "persistent", tenant, local, "partitioned"];
        self.answer(self.call(Method::GET, &path, &[])).await
    }

    /// Makes a topic, or with a number of `partitions` a partitioned one.
    ///
    /// # Errors
    /// 404: there is no such namespace; 409: it exists. See [`AdminError`].
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: Option<u32>,
        properties: &BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        let Some(partitions) = partitions else {
            return self.done(self.topic_call(Method::PUT, name, None, &[])?.json(properties)).await;
        };
        let call = self.topic_call(Method::PUT, name, Some("partitions"), &[])?;
        if properties.is_empty() {
            return self.done(call.json(&partitions)).await;
        }
        let metadata = PartitionedMetadata { partitions, deleted: false, properties: properties.clone() };
        let mut call = call.json(&metadata);
        call.headers = vec![("Content-Type", "application/vnd.partitioned-topic-metadata+json".to_owned())];
        self.done(call).await
    }

    /// How many partitions a topic has, and its properties; 0 partitions if it is not partitioned.
    ///
    /// # Errors
    /// 404: there is no such topic. See [`AdminError`].
    pub async fn partitions(&self, name: &str) -> Result<PartitionedMetadata, AdminError> {
        self.answer(self.topic_call(Method::GET, name, Some("partitions"), &[])?).await
    }

    /// Deletes a topic, with all its partitions. With `force`, its producers and consumers are disconnected.
    ///
    /// # Errors
    /// 404: there is no such topic; 412: it is in use. See [`AdminError`].
    pub async fn delete_topic(&self, name: &str, force: bool) -> Result<(), AdminError> {
        let partitioned = self.partitions(name).await?.partitions > 0;
        let under = partitioned.then_some("partitions");
        let force = if force { "true" } else { "false" };
        self.done(self.topic_call(Method::DELETE, name, under, &[("force", force)])?).await
    }

    /// A topic's statistics; the sum over its partitions if it has any.
    ///
    /// # Errors
    /// 404: there is no such topic. See [`AdminError`].
    pub async fn stats(&self, name: &str) -> Result<Value, AdminError> {
        let partitioned = self.partitions(name).await?.partitions > 0;
        let under = if partitioned { "partitioned-stats" } else { "stats" };
        self.answer(self.topic_call(Method::GET, name, Some(under), &[])?).await
    }

    /// A topic's properties.
    ///
    /// # Errors
    /// 404: there is no such topic. See [`AdminError`].
    pub async fn properties(&self, name: &str) -> Result<BTreeMap<String, String>, AdminError> {
        let call = self.topic_call(Method::GET, name, Some("properties"), &[])?;
        let properties: Option<BTreeMap<String, String>> = self.answer(call).await?;
        // A server says nothing at all of a topic that has none.
        Ok(properties.unwrap_or_default())
    }

    /// Merges properties into a topic's.
    ///
    /// # Errors
    /// 404: there is no such topic. See [`AdminError`].
    pub async fn update_properties(
        &self,
        name: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<(), AdminError> {
        self.done(self.topic_call(Method::PUT, name, Some("properties"), &[])?.json(properties)).await
    }

    /// Takes a property away from a topic.
    ///
    /// # Errors
    /// 404: there is no such topic. See [`AdminError`].
    pub async fn remove_property(&self, name: &str, key: &str) -> Result<(), AdminError> {
        self.done(self.topic_call(Method::DELETE, name, Some("properties"), &[("key", key)])?).await
    }

    fn topic_call(
        &self,
        method: Method,
        name: &str,
        under: Option<&str>,
        query: &[(&str, &str)],
    ) -> Result<Call, AdminError> {
        let Topic(parts) = topic(name)?;
        let path: Vec<&str> = ["admin", "v2"].into_iter().chain(parts).chain(under).collect();
        Ok(self.call(method, &path, query))
    }
}

/// Properties as the listing takes them: `k=v,k=v`, each name and value form-encoded, since the server
/// decodes them once more after it has decoded the address.
fn join(properties: &[(String, String)]) -> String {
    let pairs: Vec<_> =
        properties.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join(",")
}

fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_encoded_once_more() {
        let properties = [("a,b".to_owned(), "x=y".to_owned()), ("c".to_owned(), "1+ü".to_owned())];
        assert_eq!(join(&properties), "a%2Cb=x%3Dy,c=1%2B%C3%BC");
    }

    #[test]
    fn names_that_have_no_path() {
        for name in ["", "t", "t/n", "t/n/", "/n/x", "ftp://t/n/x"] {
            assert!(topic(name).is_err(), "{name}");
        }
        for name in ["", "t", "t/", "/n", "t/n/x"] {
            assert!(namespace(name).is_err(), "{name}");
        }
        assert_eq!(topic("t/n/x/y").map(|topic| topic.0).unwrap(), ["persistent", "t", "n", "x/y"]);
    }
}
