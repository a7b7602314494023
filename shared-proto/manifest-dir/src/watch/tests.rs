use super::*;
use crate::table::Scope;
use k8s_openapi::api::core::v1::Service;
use std::collections::BTreeMap;
use std::fs::write;
use std::os::unix::fs::symlink;

fn table() -> KindTable<i64> {
    KindTable::new().with("v1", "Service", Scope::Namespaced, |s: Service| {
        s.spec
            .and_then(|s| s.health_check_node_port)
            .unwrap_or(0)
            .into()
    })
}

fn doc(name: &str, value: i64) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  healthCheckNodePort: {value}\n"
    )
}

/// What a consumer of the changes would hold.
struct View {
    watch: Watch<i64>,
    objects: BTreeMap<String, (i64, String)>,
    problems: BTreeMap<PathBuf, Vec<String>>,
    upserts: usize,
}

impl View {
    fn start(root: &Path) -> Self {
        Self {
            watch: watch(root, table()).unwrap(),
            objects: BTreeMap::new(),
            problems: BTreeMap::new(),
            upserts: 0,
        }
    }

    async fn step(&mut self) {
        let change = tokio::time::timeout(Duration::from_secs(10), self.watch.next()).await;
        let change = change.expect("a change within ten seconds").unwrap();
        let name = |key: &ObjectKey| key.name.to_string();
        for key in &change.removed {
            assert!(self.objects.remove(&name(key)).is_some());
        }
        for (key, origin) in change.moved {
            self.objects.get_mut(&name(&key)).unwrap().1 = place(&origin);
        }
        for object in change.upserts {
            self.upserts += 1;
            let value = (object.value, place(&object.origin));
            self.objects.insert(name(&object.key), value);
        }
        for file in change.problems {
            let texts = file.problems.iter().map(ToString::to_string).collect();
            self.problems.insert(file.path.to_path_buf(), texts);
        }
        self.problems.retain(|_, p| !p.is_empty());
    }

    async fn until(&mut self, expected: &[(&str, i64)]) {
        while self.values() != expected {
            self.step().await;
        }
    }

    fn values(&self) -> Vec<(&str, i64)> {
        self.objects
            .iter()
            .map(|(n, (v, _))| (n.as_str(), *v))
            .collect()
    }
}

fn place(origin: &crate::Origin) -> String {
    let file = origin.path.file_name().unwrap().to_string_lossy();
    format!("{file}:{}", origin.line)
}

#[tokio::test]
async fn edits_adds_deletes_and_renames_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write(path("a.yaml"), doc("a", 1) + &doc("b", 2)).unwrap();
    let mut view = View::start(dir.path());
    view.step().await;
    assert_eq!(view.values(), [("a", 1), ("b", 2)]);

    write(path("a.yaml"), doc("a", 1) + &doc("b", 3)).unwrap();
    view.until(&[("a", 1), ("b", 3)]).await;
    assert_eq!(view.upserts, 3, "only the edited document is reported");

    write(
        path("a.yaml"),
        format!("# moved\n{}{}", doc("a", 1), doc("b", 3)),
    )
    .unwrap();
    view.step().await;
    assert_eq!(
        (view.upserts, view.objects["b"].1.as_str()),
        (3, "a.yaml:10")
    );

    std::fs::create_dir_all(path("sub/deep")).unwrap();
    write(path("sub/deep/c.yml"), doc("c", 4)).unwrap();
    view.until(&[("a", 1), ("b", 3), ("c", 4)]).await;

    write(path("sub/new.tmp"), doc("c", 5)).unwrap();
    std::fs::rename(path("sub/new.tmp"), path("sub/deep/c.yml")).unwrap();
    view.until(&[("a", 1), ("b", 3), ("c", 5)]).await;

    std::fs::rename(path("sub"), path("other")).unwrap();
    std::fs::remove_file(path("a.yaml")).unwrap();
    view.until(&[("c", 5)]).await;
    write(path("other/deep/c.yml"), doc("c", 6)).unwrap();
    view.until(&[("c", 6)]).await;
}

#[tokio::test]
async fn a_broken_document_keeps_its_last_good_version() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    write(&file, doc("a", 1) + &doc("b", 2) + &doc("c", 3)).unwrap();
    let mut view = View::start(dir.path());
    view.step().await;
    write(
        &file,
        doc("a", 9) + &doc("b", 2).replace("spec:", "spec: {") + &doc("c", 3),
    )
    .unwrap();
    view.until(&[("a", 9), ("b", 2), ("c", 3)]).await;
    let text = &view.problems[&file][0];
    assert!(
        text.contains("Service default/b: ") && text.contains("last good version"),
        "{text}"
    );
    // Cut off in the middle of an unnamed document: nothing is deleted.
    write(&file, doc("a", 8) + "---\napiVersion: v1\nki").unwrap();
    view.until(&[("a", 8), ("b", 2), ("c", 3)]).await;
    write(&file, doc("a", 8)).unwrap();
    view.until(&[("a", 8)]).await;
    assert!(view.problems.is_empty());
}

#[tokio::test]
async fn the_first_of_equal_identities_wins_and_the_second_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write(path("a.yaml"), doc("x", 1)).unwrap();
    write(path("b.yaml"), doc("x", 2)).unwrap();
    let mut view = View::start(dir.path());
    view.step().await;
    assert_eq!(view.values(), [("x", 1)]);
    assert!(view.problems[&path("b.yaml")][0].contains("already defined at"));
    std::fs::remove_file(path("a.yaml")).unwrap();
    view.until(&[("x", 2)]).await;
    assert!(view.problems.is_empty());
    write(path("a.yaml"), doc("x", 3)).unwrap();
    view.until(&[("x", 3)]).await;
    assert_eq!(view.problems.len(), 1);
}

#[tokio::test]
async fn a_mounted_config_map_is_swapped_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (version, value) in [("..v1", 1), ("..v2", 2)] {
        std::fs::create_dir(path(version)).unwrap();
        write(path(version).join("a.yaml"), doc("a", value)).unwrap();
    }
    symlink("..v1", path("..data")).unwrap();
    symlink("..data/a.yaml", path("a.yaml")).unwrap();
    let mut view = View::start(dir.path());
    view.step().await;
    assert_eq!(view.values(), [("a", 1)]);
    symlink("..v2", path("..data_tmp")).unwrap();
    std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
    view.until(&[("a", 2)]).await;
    assert_eq!(view.upserts, 2);
}

#[tokio::test]
async fn a_root_that_goes_away_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    std::fs::create_dir(&root).unwrap();
    write(root.join("a.yaml"), doc("a", 1)).unwrap();
    let mut view = View::start(&root);
    view.step().await;
    std::fs::rename(&root, dir.path().join("away")).unwrap();
    view.step().await;
    assert_eq!(view.values(), [("a", 1)]);
    assert!(view.problems.contains_key(&root));
    std::fs::create_dir(&root).unwrap();
    write(root.join("b.yaml"), doc("b", 2)).unwrap();
    view.until(&[("b", 2)]).await;
    view.until_no_problems().await;
    write(root.join("b.yaml"), doc("b", 3)).unwrap();
    view.until(&[("b", 3)]).await;
}

#[tokio::test]
async fn a_root_link_may_be_switched() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (version, value) in [("v1", 1), ("v2", 2)] {
        std::fs::create_dir(path(version)).unwrap();
        write(path(version).join("a.yaml"), doc("a", value)).unwrap();
    }
    symlink("v1", path("current")).unwrap();
    let mut view = View::start(&path("current"));
    view.step().await;
    symlink("v2", path("next")).unwrap();
    std::fs::rename(path("next"), path("current")).unwrap();
    view.until(&[("a", 2)]).await;
    write(path("v2").join("a.yaml"), doc("a", 3)).unwrap();
    view.until(&[("a", 3)]).await;
}

impl View {
    async fn until_no_problems(&mut self) {
        while !self.problems.is_empty() {
            self.step().await;
        }
    }
}
