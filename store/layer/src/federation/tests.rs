//! The directory and the store's generation against a store.

use super::*;
use crate::error::StoreError;
use crate::testing::{TestCell, name};

#[tokio::test]
async fn the_directory_keeps_cells_by_name() {
    let cell = TestCell::new().await;
    let set = async |text: &str, store: &str| {
        cell.run(async |tx| federation_cell_set(&tx, &name(text), store, 5).await).await.unwrap()
    };
    set("beta", "").await;
    set("alpha", "fdb:/one").await;
    assert_eq!(set("alpha", "fdb:/one").await.revision, 1, "setting what is set writes nothing");
    assert_eq!(set("alpha", "fdb:/two").await.revision, 2);
    let enter = async |text: &str| {
        cell.run(async |tx| federation_cell_enter(&tx, &name(text), 9).await).await.unwrap()
    };
    assert_eq!((enter("gamma").await.store.as_str(), enter("gamma").await.revision), (STORE_HERE, 1));
    assert_eq!(enter("alpha").await.store, "fdb:/two", "entering moves nothing");
    cell.run(async |tx| federation_cell_remove(&tx, &name("gamma"))).await.unwrap();
    let list = cell.run(async |tx| federation_cell_list(&tx).await).await.unwrap();
    let list: Vec<_> = list.iter().map(|(name, row)| (name.as_str(), row.store.as_str())).collect();
    assert_eq!(list, [("alpha", "fdb:/two"), ("beta", "")]);
    cell.run(async |tx| federation_cell_remove(&tx, &name("alpha"))).await.unwrap();
    let gone = cell.run(async |tx| federation_cell_read(&tx, &name("alpha")).await).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_store_counts_its_openings() {
    let cell = TestCell::new().await;
    let read = async || cell.run(async |tx| store_generation_read(&tx).await).await.unwrap().generation;
    assert_eq!(read().await, 0);
    cell.run(async |tx| store_generation_begin(&tx, 5).await).await.unwrap();
    cell.run(async |tx| store_generation_begin(&tx, 6).await).await.unwrap();
    assert_eq!(read().await, 2);
}
