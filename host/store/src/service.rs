//! A bucket -> an `OpenDAL` operator, without layers. The only place that makes an HTTP client, and only for buckets.

use std::collections::BTreeMap;
use std::sync::Once;

use opendal::services::{AzblobConfig, GcsConfig, S3Config};
use opendal::{Configurator, ErrorKind, Operator, services};

use crate::Service;
use crate::location::Bucket;

/// Where a service that has no regions is asked to be in one.
const ANY_REGION: &str = "us-east-1";

/// Returns the bucket's operator. Nothing is sent yet.
pub(crate) fn operator(bucket: &Bucket) -> Result<Operator, opendal::Error> {
    prepare_client();
    let mut options = bucket.options.clone();
    options.insert("root", format!("/{}", bucket.root));
    match bucket.service {
        Service::S3 => {
            options.insert("bucket", bucket.name.clone());
            // Amazon's own regions differ; what speaks its protocol elsewhere mostly has one, whatever it is called.
            let is_elsewhere = options
                .get("endpoint")
                .is_some_and(|endpoint| !endpoint.contains(".amazonaws.com"));
            if is_elsewhere {
                options
                    .entry("region")
                    .or_insert_with(|| ANY_REGION.to_owned());
            }
            Operator::new(S3Config::from_iter(owned(options))?.into_builder())
        }
        Service::Gcs => {
            options.insert("bucket", bucket.name.clone());
            Operator::new(GcsConfig::from_iter(owned(options))?.into_builder())
        }
        Service::Azblob => azblob(bucket, options),
    }
}

fn azblob(
    bucket: &Bucket,
    mut options: BTreeMap<&'static str, String>,
) -> Result<Operator, opendal::Error> {
    if let Some(text) = options.remove("connection_string") {
        let builder = services::Azblob::from_connection_string(&text)?;
        return Operator::new(builder.container(&bucket.name).root(&options["root"]));
    }
    options.insert("container", bucket.name.clone());
    if !options.contains_key("endpoint") {
        let Some(account) = options.get("account_name") else {
            let words = "neither `account_name` nor `endpoint` is given; set AZURE_STORAGE_ACCOUNT, or write ?account_name=…";
            return Err(opendal::Error::new(ErrorKind::ConfigInvalid, words));
        };
        let endpoint = format!("https://{account}.blob.core.windows.net");
        options.insert("endpoint", endpoint);
    }
    Operator::new(AzblobConfig::from_iter(owned(options))?.into_builder())
}

fn owned(options: BTreeMap<&'static str, String>) -> impl Iterator<Item = (String, String)> {
    let options = options.into_iter();
    options.map(|(name, value)| (name.to_owned(), value))
}

/// Says how connections are made and encrypted; the client itself is made when the first request is sent.
fn prepare_client() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only where one is installed already, which then serves as well.
        _ = rustls::crypto::ring::default_provider().install_default();
        opendal::install_default();
    });
}
