use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

struct Pair {
    cert: String,
    key: String,
}

fn pair() -> Pair {
    pair_of(KeyPair::generate().unwrap())
}

fn pair_of(key: KeyPair) -> Pair {
    let params = CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
    Pair {
        cert: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn read(fields: Value) -> Result<Option<Checked>, SecretError> {
    let object = json!({ "metadata": {"name": "x", "namespace": "shop"}, "stringData": fields });
    tls_secret(&serde_json::from_value(object).unwrap())
}

fn text(result: Result<Option<Checked>, SecretError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_pair_with_anchors() {
    let Pair { cert, key } = pair();
    let checked = read(json!({"tls.crt": cert, "tls.key": key, "ca.crt": pair().cert}))
        .unwrap()
        .unwrap();
    assert_eq!(checked.secret.cert_chain, cert.as_bytes());
    assert_eq!(checked.secret.private_key, key.as_bytes());
    assert!(checked.secret.ca.is_some());
    assert!(checked.not_after.unwrap() > 0);
}

#[rstest]
#[case(&PKCS_ECDSA_P384_SHA384)]
#[case(&PKCS_ED25519)]
fn other_keys(#[case] algorithm: &'static rcgen::SignatureAlgorithm) {
    let Pair { cert, key } = pair_of(KeyPair::generate_for(algorithm).unwrap());
    assert!(read(json!({"cert": cert, "key": key})).unwrap().is_some());
}

#[test]
fn a_chain_is_compared_by_its_first_certificate() {
    let (leaf, issuer) = (pair(), pair());
    let chain = format!("comment\n{}{}", leaf.cert, issuer.cert);
    assert!(read(json!({"tls.crt": chain, "tls.key": leaf.key})).is_ok());
    let error = text(read(json!({"tls.crt": chain, "tls.key": issuer.key})));
    assert_eq!(
        error,
        "Secret shop/x: data[tls.key]: the key does not fit the first certificate of the chain"
    );
}

#[test]
fn the_generic_form_wins_when_complete() {
    let (one, two) = (pair(), pair());
    let fields = json!({"cert": one.cert, "key": one.key, "tls.crt": two.cert, "tls.key": two.key});
    assert_eq!(
        read(fields).unwrap().unwrap().secret.cert_chain,
        one.cert.as_bytes()
    );
    let fields = json!({"key": "some other key", "tls.crt": two.cert, "tls.key": two.key});
    assert_eq!(
        read(fields).unwrap().unwrap().secret.cert_chain,
        two.cert.as_bytes()
    );
}

#[test]
fn string_data_wins_over_data() {
    let Pair { cert, key } = pair();
    let object = json!({
        "metadata": {"name": "x"},
        "data": {"tls.crt": "bm9uZQ==", "tls.key": "bm9uZQ=="},
        "stringData": {"tls.crt": cert, "tls.key": key},
    });
    assert!(
        tls_secret(&serde_json::from_value(object).unwrap())
            .unwrap()
            .is_some()
    );
}

#[test]
fn not_about_tls() {
    assert_eq!(read(json!({"password": "p"})).unwrap(), None);
    assert_eq!(read(json!({"ca.crt": ""})).unwrap(), None);
}

#[test]
fn anchors_alone() {
    let checked = read(json!({"cacert": pair().cert})).unwrap().unwrap();
    assert!(checked.secret.cert_chain.is_empty());
    assert!(checked.secret.ca.is_some());
    assert_eq!(checked.not_after, None);
}

#[test]
fn mistakes_name_object_and_field_and_show_no_content() {
    let Pair { cert, key } = pair();
    let broken = cert.replacen("MII", "AAA", 1);
    for (fields, message) in [
        (
            json!({"tls.crt": "junk", "tls.key": key}),
            "data[tls.crt]: not PEM",
        ),
        (
            json!({"tls.crt": key, "tls.key": key}),
            "data[tls.crt]: not PEM",
        ),
        (
            json!({"tls.crt": broken, "tls.key": key}),
            "data[tls.crt]: certificate 1",
        ),
        (
            json!({"tls.crt": format!("{cert}{broken}"), "tls.key": key}),
            "data[tls.crt]: certificate 2",
        ),
        (
            json!({"tls.crt": cert, "tls.key": "junk"}),
            "data[tls.key]: not PEM",
        ),
        (
            json!({"tls.crt": cert, "tls.key": cert}),
            "data[tls.key]: not PEM",
        ),
        (json!({"tls.crt": cert}), "data[tls.key]: missing"),
        (json!({"key": key}), "data[cert]: missing"),
        (
            json!({"tls.crt": cert, "tls.key": key.replace("PRIVATE", "ENCRYPTED PRIVATE")}),
            "data[tls.key]: unsupported",
        ),
        (
            json!({"tls.crt": cert, "tls.key": pair().key}),
            "data[tls.key]: the key does not fit",
        ),
        (
            json!({"tls.crt": cert, "tls.key": key, "ca.crt": "junk"}),
            "data[ca.crt]: not PEM",
        ),
    ] {
        let error = text(read(fields));
        assert!(
            error.starts_with(&format!("Secret shop/x: {message}")),
            "{error}"
        );
        assert!(!error.contains("junk"), "{error}");
    }
    let object = json!({"metadata": {"name": "x", "namespace": "shop"}, "type": TLS_TYPE});
    let error = tls_secret(&serde_json::from_value(object).unwrap());
    assert_eq!(
        text(error),
        "Secret shop/x: data[tls.crt]: missing or empty"
    );
}

#[test]
fn weak_rsa_is_refused() {
    let fields = json!({"tls.crt": include_str!("weak.crt"), "tls.key": include_str!("weak.key")});
    let error = text(read(fields));
    assert_eq!(
        error,
        "Secret shop/x: data[tls.crt]: RSA key of 1024 bits, at least 2048 are needed"
    );
    let fields = json!({"tls.crt": include_str!("rsa.crt"), "tls.key": include_str!("rsa.key")});
    assert!(read(fields).unwrap().unwrap().not_after.is_some());
}
