"""The controller of EdgeWorkloads and EdgeDeployments: are they valid, how far are they, when are they gone."""
