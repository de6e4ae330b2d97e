"""Models over HTTP: a bounded API that streams the denoising, and the page that shows it. Needs the extra `serve`."""
