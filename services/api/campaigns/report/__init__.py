"""Reports of campaigns: collected from their records, shown as HTML, Markdown or JSON."""
