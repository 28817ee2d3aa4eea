"""The watcher: hears everything, forgets nothing, holds almost nothing."""
